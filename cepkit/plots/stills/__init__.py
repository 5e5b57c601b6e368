"""Pictures that stay where no kernel runs: SVG text as PNG, and figures of plotly as SVG text."""
