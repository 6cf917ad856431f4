"""What the tests share: real servers, real processes, and ways to wait for them."""
