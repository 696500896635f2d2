"""Model servers as their users see them: what they say of themselves, and the calls that steer them."""
