"""Random faults on a real mixed group, seeded and replayable: what is drawn, carried out and judged."""
