-- What each upstream did for each route, and what it charges; since they were several.

CREATE TABLE routed (
    upstream INTEGER NOT NULL,
    route TEXT NOT NULL,          -- '' where none matched
    requests INTEGER NOT NULL,
    prompt INTEGER NOT NULL,
    reused INTEGER NOT NULL,
    evaluated INTEGER NOT NULL,
    output INTEGER NOT NULL,
    price REAL NOT NULL,          -- in the currency of the configuration
    PRIMARY KEY (upstream, route)
) WITHOUT ROWID;
