"""The one kind of error that a user's data can cause."""


class DataError(ValueError):
    """Something is wrong with the data asked for; the message is one line that says what to do."""
