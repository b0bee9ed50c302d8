-- The resources that the client of a session wants to hear of, as a JSON list.
ALTER TABLE callgate_sessions ADD COLUMN subscriptions TEXT;
