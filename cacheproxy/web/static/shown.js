// What the server said last: all figures of the window, and the last requests.
export const LATEST = 80; // requests in the chart; the table begins with fewer
export const shown = { data: null, latest: [] };
