"""Two clusters beside each other, and what copies records between them: real and chosen replicators."""
