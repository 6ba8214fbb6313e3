"""What verl's and TRL's own code makes of a few batches, and the script that asked them."""
