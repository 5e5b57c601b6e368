"""Pictures of plans and simulated nodes."""
