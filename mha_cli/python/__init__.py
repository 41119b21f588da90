"""What Python programs call; ``mha_cli`` hands it on."""
