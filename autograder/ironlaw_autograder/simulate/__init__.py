"""A synthetic class: right, wrong, careless and hostile submissions with known scores."""
