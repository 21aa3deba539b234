"""What a card's engines and its host did when: recording, traces, and the settings of both."""
