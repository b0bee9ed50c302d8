CREATE TABLE IF NOT EXISTS products (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    price INTEGER NOT NULL CHECK (price >= 0),
    stock INTEGER NOT NULL CHECK (stock >= 0)
);
CREATE TABLE IF NOT EXISTS orders (
    id INTEGER PRIMARY KEY,
    id_product INTEGER NOT NULL REFERENCES products (id),
    quantity INTEGER NOT NULL,
    total INTEGER NOT NULL,
    buyer TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS tokens (
    digest BLOB PRIMARY KEY,
    id_user INTEGER NOT NULL
);
INSERT OR IGNORE INTO products (id, name, price, stock) VALUES
    (1, 'Green tea', 450, 40),
    (2, 'Black tea', 390, 55),
    (3, 'Teapot', 3200, 6),
    (4, 'Samovar', 18900, 2);
