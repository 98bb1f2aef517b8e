"""What happened inside? The credit of every token, as numbers, as a page and live; curves; what a step costs."""
