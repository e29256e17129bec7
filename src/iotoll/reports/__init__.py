"""What people and other programs read: pages, terminal tables, traces, published files."""
