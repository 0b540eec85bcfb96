PRAGMA user_version = 3;
BEGIN TRANSACTION;
CREATE TABLE results (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    session INTEGER NOT NULL REFERENCES sessions (id),
    scenario TEXT NOT NULL,
    "case" TEXT NOT NULL,
    family TEXT NOT NULL DEFAULT '',
    mechanism TEXT NOT NULL DEFAULT '',
    runner TEXT NOT NULL DEFAULT '',
    seed INTEGER NOT NULL DEFAULT 0,
    plan TEXT NOT NULL DEFAULT '',
    code TEXT NOT NULL DEFAULT '',
    outcome TEXT NOT NULL DEFAULT '',
    finding TEXT NOT NULL DEFAULT '',
    sentence TEXT NOT NULL DEFAULT '',
    record TEXT NOT NULL DEFAULT '',
    as_recorded INTEGER,
    digest TEXT NOT NULL DEFAULT '',
    seconds REAL NOT NULL DEFAULT 0,
    blame TEXT NOT NULL DEFAULT '',
    folder TEXT NOT NULL DEFAULT '',
    attempt_of INTEGER REFERENCES results (id)
);
INSERT INTO "results" VALUES(1,1,'racy','one','sync','kill, process','',0,'p','c','SURVIVED','','','SURVIVED',1,'d',1.0,'','racy-one-s0-0001',NULL);
INSERT INTO "results" VALUES(2,1,'racy','one','sync','kill, process','',0,'p','c','SILENT','race: lost update, rank 1, step 2','','',0,'d',1.0,'','',1);
INSERT INTO "results" VALUES(3,1,'racy','two','sync','kill, process','',0,'p','c','','','needs a card','',NULL,'d',1.0,'','',NULL);
INSERT INTO "results" VALUES(4,2,'racy','one','sync','kill, process','',0,'p','c','HUNG','','','',0,'d',1.0,'','',NULL);
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    began TEXT NOT NULL,
    ended TEXT NOT NULL DEFAULT '',
    host TEXT NOT NULL DEFAULT '',
    git TEXT NOT NULL DEFAULT '',
    image TEXT NOT NULL DEFAULT '',
    breakrank TEXT NOT NULL DEFAULT '',
    python TEXT NOT NULL DEFAULT '',
    torch TEXT NOT NULL DEFAULT '',
    tf TEXT NOT NULL DEFAULT '',
    argv TEXT NOT NULL DEFAULT '[]',
    selected INTEGER NOT NULL DEFAULT 0,
    exit INTEGER
, image_id TEXT NOT NULL DEFAULT '');
INSERT INTO "sessions" VALUES(1,'nightly','2026-11-01T02:00:00Z','2026-11-01T02:00:00Z','h','abc-dirty','','0.1.0','3.11.2','2.13','','["--scenario=all"]',2,0,'');
INSERT INTO "sessions" VALUES(2,'pytest','2026-11-02T02:00:00Z','2026-11-02T02:00:00Z','','','','','','2.13','','[]',0,0,'sha256:0f');
CREATE UNIQUE INDEX one_result_a_case ON results (session, scenario, "case") WHERE attempt_of IS NULL;
CREATE INDEX results_of_a_case ON results (scenario, "case");
CREATE INDEX further_attempts ON results (attempt_of);
CREATE INDEX results_of_a_session ON results (session);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('sessions',2);
INSERT INTO "sqlite_sequence" VALUES('results',4);
COMMIT;
