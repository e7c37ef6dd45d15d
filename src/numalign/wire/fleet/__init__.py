"""Files about whole fleets: scenarios, published lists of work, shapes, captured clusters."""
