import{D as i,x as l,y as c,ya as u}from"./chunk-HCH4DYAF.js";async function*p(t,o){let n="";for(;n!==null;){let s=await c(`/contexts/${t}/messages?branch=${i(o)}&limit=200${n?`&cursor=${i(n)}`:""}`);yield*s.messages,n=s.next_cursor}}var g=t=>{let o=Math.max(2,...[...t.matchAll(/`+/g)].map(s=>s[0].length)),n="`".repeat(o+1);return`${n}
${t}
${n}`};function m(t){let o=[`## ${u(t.role)}`,`*${t.created_at}*`];t.text&&o.push(t.text);for(let n of t.tool_calls)o.push(`**${n.tool_name}**`,g(JSON.stringify(n.arguments,null,2)));return t.tool_result&&o.push(g(typeof t.tool_result.result=="string"?t.tool_result.result:JSON.stringify(t.tool_result.result,null,2))),t.images.length>0&&o.push(`(${t.images.length} images)`),o.join(`

`)}async function f(t,o,n){let s=[`# ${n||"Untitled"}`];for await(let r of p(t,o))s.push(m(r));return`${s.join(`

`)}
`}async function h(t,o,n,s){let r=s==="md"?await f(t,o,n):await(await l(`/contexts/${t}?messages=all`)).text(),a=URL.createObjectURL(new Blob([r],{type:s==="md"?"text/markdown":"application/json"})),e=document.createElement("a");e.href=a,e.download=`${(n||"conversation").replace(/[^\p{L}\p{N} _-]/gu,"").trim().slice(0,60)||"conversation"}.${s}`,e.click(),setTimeout(()=>URL.revokeObjectURL(a),1e4)}export{f as branchAsMarkdown,h as downloadConversation};
