"""Reports as data, and the one template that makes pages of them; needs neither Spark nor a network."""
