-- Sends the requests in the files that are named, in turn. The last line: requests, microseconds,
-- errors of connections, answers that were not 2xx or 3xx, 99th percentile in microseconds.
local requests, turn = {}, 0

function init(args)
   for i = 1, #args do
      local file = assert(io.open(args[i], "rb"))
      requests[i] = file:read("*a")
      file:close()
   end
end

function request()
   turn = turn % #requests + 1
   return requests[turn]
end

function done(summary, latency)
   local errors = summary.errors
   io.write(string.format("\n%d %d %d %d %d\n", summary.requests, summary.duration,
      errors.connect + errors.read + errors.write + errors.timeout, errors.status,
      latency:percentile(99)))
end
