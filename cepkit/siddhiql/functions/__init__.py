"""The functions of SiddhiQL: their types, and what they compute by the rules of Siddhi and Java."""
