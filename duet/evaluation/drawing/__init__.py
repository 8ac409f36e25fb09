"""Pictures that need more than a few lines; matplotlib is imported with them."""
