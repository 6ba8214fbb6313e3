"""What Quintain promises, as sentences that run."""
