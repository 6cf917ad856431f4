"""Operations that may be repeated: on the user's own connection, in the user's own transaction."""
