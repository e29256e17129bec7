"""The trend of a history: page, terminal, feed, metrics and alerts, from one `view.Trend`."""
