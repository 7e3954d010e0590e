// Questions to the proxy, and what it answers: JSON, or an error in a sentence.

async function answered(path, options) {
  let answer;
  try { answer = await fetch(`/_cacheproxy/${path}`, options); } catch { throw new Error("The proxy does not answer."); }
  const said = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(said.error || `The proxy answered with status ${answer.status}.`);
  return said;
}

export const get = (path) => answered(path, {});
export const post = (path, body = {}) =>
  answered(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
