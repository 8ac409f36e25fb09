"""What a trained encoder can do: each evaluation is a function of an encoder and images that returns a Result."""
