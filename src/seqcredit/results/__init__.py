"""What came out? Evaluation, significance, cells, tables, figures and the report."""
