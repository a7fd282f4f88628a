#!/bin/sh
# greet NAME says hello.
echo "Hello, ${1:-world}!"
