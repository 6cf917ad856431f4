import importlib
import json
import sys

if __name__ == "__main__":
    program, settings = sys.argv[1:]
    importlib.import_module(f"benchmarks.loads.{program}").main(json.loads(settings))
