"""The pages of an expansion, planned and run; they need neither Spark nor a network."""
