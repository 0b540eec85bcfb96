"""Hooks of TensorFlow and Keras."""
