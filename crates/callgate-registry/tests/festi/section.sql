INSERT INTO festi_sections (caption, ident, mask)
VALUES ('User Management', 'user_management', '6');
