"""The page and the plot, made from the figures of a run."""
