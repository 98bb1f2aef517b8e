"""Who predicts, who judges? Actors, critics, and the search that speaks with them word by word."""
