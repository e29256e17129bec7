"""What a search found, as text and as a page."""
