"""The built-in encoder families without Keras: their options, and the form in which they are published."""
