<?php
// Behind the PHP middleware; run by php -S with WEIR, URL, FAILING and SECONDS set, and TOKEN or not.
require getenv('WEIR');
weir_limit(getenv('URL'), fail_open: getenv('FAILING') === 'open', timeout: (float) getenv('SECONDS'),
    token: (string) getenv('TOKEN'));
echo "welcome\n";
