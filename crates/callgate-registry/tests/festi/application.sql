INSERT INTO rpc_methods (plugin, method, rpc_method, params, description, sections, return_type, params_types)
VALUES ('MyPlugin', 'getUserInfo', 'getUserInfo', '["int $idUser","bool $includeDetails = false"]', 'Looks up a user.', NULL, 'array', NULL);
INSERT INTO rpc_methods (plugin, method, rpc_method, params, description, sections, return_type, params_types)
VALUES ('MyPlugin', 'deleteUser', 'deleteUser', '["int $idUser"]', 'Deletes a user.', 'user_management', 'bool', '["int"]');
INSERT INTO rpc_methods (plugin, method, rpc_method, params, description, sections, return_type, params_types)
VALUES ('Projects', 'onDisplayList', 'getProjects', '["Response $response"]', NULL, '', 'bool', '["Response"]');
INSERT INTO rpc_methods (plugin, method, rpc_method, params, description, sections, return_type, params_types)
VALUES ('MCPServer', 'onToolsList', 'tools/list', '[]', NULL, NULL, NULL, '[]');
INSERT INTO festi_settings (caption, name, value) VALUES ('Name', 'mcp_server_name', 'site');
INSERT INTO festi_settings (caption, name, value) VALUES ('Mail password', 'mail_password', 's3cret');
