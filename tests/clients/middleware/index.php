<?php
// Behind the PHP middleware; run by php -S with WEIR, URL, FAILING and SECONDS set, and TOKEN or not.
require getenv('WEIR');
weir_limit(getenv('URL'), fail_open: getenv('FAILING') === 'open', timeout: (float) getenv('SECONDS'),
    token: (string) getenv('TOKEN'));
$path = $_SERVER['REQUEST_URI'];
if (preg_match('#^/status/(\d+)#', $path, $found)) {
    http_response_code((int) $found[1]);
}
if ($path === '/raise') {
    throw new RuntimeException();
}
if ($path === '/slow') {
    usleep(50000);
}
if ($path === '/late') {
    set_time_limit(1);
    while (true);
}
echo "welcome\n";
while ($path === '/endless') {
    echo str_repeat("welcome\n", 1000);
    flush();
}
if ($path === '/broken') {
    flush();
    throw new RuntimeException();
}
