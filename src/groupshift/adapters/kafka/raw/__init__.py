"""Requests to single brokers on kio's schemas: one connection a broker, pipelined (docs/adr/0009)."""
