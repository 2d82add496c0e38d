-- Asks one query again and again, with a random id from a file each time.
--
--   usage: wrk -t1 -c16 -d30s --latency -s queries.lua URL -- QUERY_FILE [IDS_FILE]
--
-- The query takes its id as $id. An answer with errors in it, or without what was asked for, ends the
-- run and makes it worthless.

local body = {}

function init(arguments)
  local file = assert(io.open(arguments[1]))
  local query = file:read("a"):gsub("%s+", " "):gsub('"', '\\"')
  file:close()
  if arguments[2] then
    for id in io.lines(arguments[2]) do
      body[#body + 1] = '{"query":"' .. query .. '","variables":{"id":"' .. id .. '"}}'
    end
  else
    body[1] = '{"query":"' .. query .. '"}'
  end
  wrk.method = "POST"
  wrk.headers["Content-Type"] = "application/json"
  math.randomseed(7)
end

function request()
  return wrk.format(nil, nil, nil, body[math.random(#body)])
end

function response(status, _, answer)
  if status ~= 200 or answer:find('"errors"', 1, true) or answer:find('^{"data":{"%w+":null}}') then
    print("worthless: " .. status .. " " .. answer:sub(1, 300))
    wrk.thread:stop()
  end
end

function done(summary, latency)
  io.write(string.format(
    "%.0f requests a second, p50 %.2f ms, p99 %.2f ms, %d failed\n",
    summary.requests / summary.duration * 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
    summary.errors.status + summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout))
end
