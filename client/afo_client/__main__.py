"""`python -m afo_client`: the `afo` command where its script is not on the path."""

from afo_client.cli.main import main

if __name__ == "__main__":
    main()
