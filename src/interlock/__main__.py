"""``python -m interlock``: the command line, as the script `interlock`."""

from interlock.cli import main

if __name__ == "__main__":
    main()
