// Work for as long as the page is seen. Over HTTP/1.1 browsers open six connections to one origin, for
// all tabs together, and a seventh request waits for ever: pages that nobody looks at hold none.

const moment = 3_000; // milliseconds that a page may be hidden and keep its work

/**
 * Does work(signal) as long as the page is seen. The work's signal aborts when the page has been hidden
 * for a moment, and the work begins again when it is seen. It ends with the work, or with the signal.
 */
export async function whileSeen(signal, work) {
  while (!signal.aborted) {
    await toBeSeen(signal);
    const hidden = new AbortController();
    const both = AbortSignal.any([signal, hidden.signal]);
    let timer = 0;
    const look = () => {
      clearTimeout(timer);
      if (document.hidden) timer = setTimeout(() => hidden.abort(), moment);
    };
    document.addEventListener("visibilitychange", look);
    try {
      if (!both.aborted) await work(both);
      if (!both.aborted) return;
    } catch (error) {
      if (!both.aborted) throw error;
    } finally {
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", look);
    }
  }
}

function toBeSeen(signal) {
  return new Promise((resolve) => {
    const look = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener("visibilitychange", look);
      signal.removeEventListener("abort", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
    signal.addEventListener("abort", look);
    look();
  });
}
