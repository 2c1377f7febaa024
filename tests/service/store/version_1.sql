-- A store as version 1 left it, with two jobs; made by its first migration and never edited.
PRAGMA application_id = 1164730739;
PRAGMA user_version = 1;
BEGIN TRANSACTION;
CREATE TABLE decisions (
            seq INTEGER PRIMARY KEY AUTOINCREMENT, at_s REAL NOT NULL, policy TEXT NOT NULL,
            took_ms REAL NOT NULL, problem TEXT NOT NULL, view BLOB NOT NULL, plan BLOB NOT NULL
        );
CREATE TABLE events (
            seq INTEGER PRIMARY KEY AUTOINCREMENT, at_s REAL NOT NULL, kind TEXT NOT NULL,
            job INTEGER REFERENCES jobs (number), body TEXT NOT NULL
        );
INSERT INTO "events" VALUES(1,10.0,'submitted',1,'{}');
CREATE TABLE fence (id INTEGER PRIMARY KEY CHECK (id = 1), epoch INTEGER NOT NULL);
INSERT INTO "fence" VALUES(1,5);
CREATE TABLE jobs (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            name TEXT NOT NULL, owner TEXT NOT NULL, tenant TEXT NOT NULL,
            spec TEXT NOT NULL, directory TEXT NOT NULL,
            state TEXT NOT NULL, terminal INTEGER NOT NULL CHECK (terminal IN (0, 1)),
            held INTEGER NOT NULL, pinned_workers INTEGER, pinned_node TEXT,
            kind TEXT NOT NULL, kind_reason TEXT NOT NULL,
            attempt INTEGER NOT NULL, "grant" TEXT,
            ending TEXT NOT NULL CHECK (ending IN ('', 'suspend', 'cancel')),
            reason TEXT NOT NULL, code INTEGER,
            submitted_s REAL NOT NULL, first_start_s REAL, last_change_s REAL NOT NULL, ended_s REAL,
            as_of_s REAL NOT NULL, service_gpu_s REAL NOT NULL, held_s REAL NOT NULL,
            restarts INTEGER NOT NULL, failures INTEGER NOT NULL, seen INTEGER NOT NULL,
            training TEXT NOT NULL, profile TEXT NOT NULL
        );
INSERT INTO "jobs" VALUES(1,'old','ann','default','{"command":["python","a.py"]}','/home/ann','succeeded',1,0,NULL,NULL,'rigid','',1,NULL,'','finished',NULL,10.0,NULL,12.0,12.0,12.0,4.0,2.0,0,0,3,'{"step":7}','{}');
INSERT INTO "jobs" VALUES(2,'older','bob','team','{"command":["python","b.py"]}','/home/bob','running',0,0,NULL,NULL,'adaptive','',2,'{"slices":[{"node":"n1","workers":2}]}','','',NULL,11.0,NULL,13.0,NULL,13.0,4.0,2.0,1,0,3,'{}','{"a":1.5}');
CREATE TABLE request_keys (
            user TEXT NOT NULL, key TEXT NOT NULL, job INTEGER NOT NULL REFERENCES jobs (number),
            PRIMARY KEY (user, key)
        ) WITHOUT ROWID;
INSERT INTO "request_keys" VALUES('ann','k',1);
CREATE TABLE settings (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX jobs_unfinished ON jobs (terminal, number);
CREATE INDEX jobs_ended ON jobs (terminal, ended_s);
CREATE INDEX jobs_of_owner ON jobs (terminal, owner, ended_s);
CREATE INDEX jobs_of_tenant ON jobs (terminal, tenant, ended_s);
CREATE INDEX jobs_by_state ON jobs (state, ended_s, service_gpu_s);
CREATE INDEX events_of_job ON events (job, seq);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('jobs',2);
INSERT INTO "sqlite_sequence" VALUES('events',1);
COMMIT;
