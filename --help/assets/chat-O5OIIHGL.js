import{b as o,g as r,h as m}from"./chunk-6DZ7JUHD.js";import"./chunk-Y5GHGZCX.js";import"./chunk-HCH4DYAF.js";export{r as Chat,o as prepareConversation,m as stepBranchPoint};
