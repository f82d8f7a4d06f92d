"""Where journal and blobs live. ``base`` says what a store must do; the others do it."""
