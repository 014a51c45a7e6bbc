"""The one engine: it drives every move's runs, and knows no move."""
