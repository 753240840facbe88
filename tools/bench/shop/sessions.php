<?php
// Where visitors' sessions are: in files, in Redis, or in a table of MariaDB.
declare(strict_types=1);

/** Of no use to the shop itself: MariaDB keeps what PHP would keep in a file. Connections stay for the next request. */
final class Rows implements SessionHandlerInterface
{
    private mysqli $database;

    public function open(string $path, string $name): bool
    {
        $this->database = new mysqli('p:localhost', 'root', '', 'shop', 0, $path);
        return true;
    }

    public function close(): bool
    {
        return true;
    }

    public function read(string $id): string|false
    {
        $rows = $this->database->execute_query('SELECT content FROM sessions WHERE id = ?', [$id]);
        return $rows->fetch_row()[0] ?? '';
    }

    public function write(string $id, string $data): bool
    {
        return (bool) $this->database->execute_query('REPLACE INTO sessions VALUES (?, ?, ?)', [$id, $data, time()]);
    }

    public function destroy(string $id): bool
    {
        return (bool) $this->database->execute_query('DELETE FROM sessions WHERE id = ?', [$id]);
    }

    public function gc(int $max_lifetime): int|false
    {
        $this->database->execute_query('DELETE FROM sessions WHERE changed_at < ?', [time() - $max_lifetime]);
        return $this->database->affected_rows;
    }
}

function open_session(array $options): void
{
    session_name(SESSION);
    if (SESSIONS_IN === 'mariadb') {
        session_set_save_handler(new Rows(), false);
    } elseif (SESSIONS_IN === 'redis') {
        ini_set('session.save_handler', 'redis');
    }
    session_save_path(SESSIONS_IN === 'redis' ? 'unix://' . SESSIONS . '?persistent=1' : SESSIONS);
    session_start($options + ['cache_limiter' => '']);
}
