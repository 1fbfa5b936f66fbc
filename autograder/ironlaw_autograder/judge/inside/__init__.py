"""What is mounted into the sandbox. It knows no test and no answer."""
