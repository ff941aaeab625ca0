/* worker_shared.h: defines what all workers, the threads that serve requests, have in common. */
#ifndef SERVER_WORKER_SHARED_H
#define SERVER_WORKER_SHARED_H

#include <stdatomic.h>

#include "net/net.h"
#include "proto/codec.h"
#include "server/access/login_throttle.h"
#include "server/access/permit_secret.h"
#include "server/admin/events.h"
#include "server/admin/forced_keys.h"
#include "server/admin/key_phases.h"
#include "server/admin/event_log.h"
#include "server/admin/metrics.h"
#include "server/admin/overrides.h"
#include "server/config/reload_requests.h"
#include "server/denials/denial_file.h"
#include "server/denials/denial_sample.h"
#include "server/denials/digest_keys.h"
#include "server/history/history.h"
#include "server/start/server_status.h"
#include "server/stores/group_list.h"
#include "server/stores/report_poll.h"
#include "server/stores/stores.h"
#include "stats/top_denied.h"

struct worker_shared {
	bool has_admin; /* admin calls have a listener of their own */
	weir_table *table;
	struct metrics *metrics;
	struct top *top;
	struct key_phases *phases;
	struct server_status status;
	struct denial_sample *denials;   /* NULL if none are kept */
	struct denial_file *denial_file; /* NULL if they are in no file */
	struct history *history;
	struct log *log;
	struct events *events;        /* those of the log */
	struct events *denial_events; /* denials that are kept, while clients follow them */
	struct stores stores;
	struct permit_secrets permit_secrets;
	struct digest_keys digest_keys;
	struct overrides overrides;
	struct reload_requests reload_requests;
	struct quorum_groups quorum_groups;
	struct reports reports;
	struct forced_keys forced;
	struct login_throttle login_throttle;
	struct net_conn_limit conn_limit;
	_Atomic uint64_t idle_timeout_ms[METRICS_PROTOCOL_COUNT];
	struct codec_bounds bounds;
	size_t threads; /* number of workers */
	_Atomic bool stopping;
};

#endif
